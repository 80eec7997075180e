// The network proxy of a stack: Toxiproxy, with live counts of the bytes that arrive and that are passed on.
//
// Toxiproxy's own metrics count a connection when it has ended, and Kafka's last as long as a query. So each proxy has
// a toxic that counts what arrives, first in both of its streams, and one that counts what is passed on, last; whoever
// injects a fault takes the last one out and puts it in again behind the fault. GET /traffic gives all counts at one moment.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Count is what a counter has seen. ByteSeconds is the sum over all bytes of the time at which each was seen, from
// which the time that bytes are held between two counters is computed.
type Count struct {
	Bytes       int64   `json:"bytes"`
	ByteSeconds float64 `json:"byte_seconds"`
}

var (
	begun  = time.Now()
	lock   sync.Mutex
	counts = map[string]*Count{}
)

// CountToxic passes everything on, and counts it.
type CountToxic struct {
	Counter string `json:"counter"`
}

func (t *CountToxic) count(bytes int) {
	lock.Lock()
	defer lock.Unlock()
	counted, known := counts[t.Counter]
	if !known {
		counted = &Count{}
		counts[t.Counter] = counted
	}
	counted.Bytes += int64(bytes)
	counted.ByteSeconds += float64(bytes) * time.Since(begun).Seconds()
}

// Pipe is called by Toxiproxy for each connection.
func (t *CountToxic) Pipe(stub *toxics.ToxicStub) {
	for {
		select {
		case <-stub.Interrupt:
			return
		case chunk := <-stub.Input:
			if chunk == nil {
				stub.Close()
				return
			}
			t.count(len(chunk.Data))
			stub.Output <- chunk
		}
	}
}

func traffic(response http.ResponseWriter, _ *http.Request) {
	lock.Lock()
	defer lock.Unlock()
	response.Header().Set("Content-Type", "application/json")
	now := time.Since(begun).Seconds()
	_ = json.NewEncoder(response).Encode(map[string]interface{}{"seconds": now, "counts": counts})
}

func run(address string, config string) error {
	toxics.Register("count", new(CountToxic))
	logger := zerolog.New(os.Stdout).With().Timestamp().Logger().Level(zerolog.WarnLevel)
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), logger)
	file, err := os.Open(config)
	if err != nil {
		return err
	}
	defer file.Close()
	proxies, err := server.Collection.PopulateJson(server, file)
	if err != nil {
		return err
	}
	for _, proxy := range proxies {
		for _, stream := range []string{"upstream", "downstream"} {
			for _, what := range []string{"received", "passed"} {
				toxic := fmt.Sprintf(
					`{"name": "%s-%s", "type": "count", "stream": "%s", "attributes": {"counter": "%s/%s/%s"}}`,
					what, stream, stream, proxy.Name, stream, what)
				if _, err := proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
					return err
				}
			}
		}
	}
	routes := server.Routes()
	routes.HandleFunc("/traffic", traffic).Methods("GET").Name("Traffic")
	api := &http.Server{Addr: address, Handler: routes, ReadTimeout: 15 * time.Second}
	return api.ListenAndServe()
}

func main() {
	address := flag.String("api", "", "HOST:PORT of the API")
	config := flag.String("config", "", "JSON file with the proxies, as Toxiproxy's -config has it")
	flag.Parse()
	if err := run(*address, *config); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
