"""The documentation: pages in Markdown, what makes the reference of the source, and the settings of the site."""
