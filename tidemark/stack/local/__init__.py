"""The backend ``local``: every component is a process of this machine."""
