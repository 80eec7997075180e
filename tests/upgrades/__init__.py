"""Operations on a streaming join that are no faults: another Spark on its checkpoint, a changed query, moved files."""
