"""What was observed against what was predicted: output, state, metrics; and the words that explain a difference."""
