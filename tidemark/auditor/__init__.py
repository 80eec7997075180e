"""An audit: a query that tidemark did not start, judged by what it read and wrote."""
