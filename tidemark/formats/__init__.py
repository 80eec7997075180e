"""The formats that everything reads and writes: contract, trace, events, evidence; plain data, no client."""
