"""What is shown, and how: pages, tables, charts, words, messages."""
