"""Evidence read into rows: what each batch read, what each output record claims. Decides nothing."""
