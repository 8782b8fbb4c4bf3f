"""One self-contained HTML file on several runs."""
