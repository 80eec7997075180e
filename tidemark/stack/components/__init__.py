"""What each component of a stack is started with: commands, settings, ports. Pure planning: nothing is started here."""
