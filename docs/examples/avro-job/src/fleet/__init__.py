"""Trips and charges of a ride service."""
