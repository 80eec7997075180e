"""The backend ``compose``: every component is a container."""
