"""Programs that run in the stack's own interpreter. They import nothing of tidemark."""
