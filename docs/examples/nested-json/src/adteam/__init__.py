"""The streams of the advertising team: campaigns that are ordered, and payments for them."""
