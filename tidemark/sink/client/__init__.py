"""What runs in the program that starts the query."""
