"""``python -m tidemark``: the command line."""

from tidemark.cli import main

if __name__ == "__main__":
    main()
