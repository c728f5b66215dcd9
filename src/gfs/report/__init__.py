"""Results for people: terminal tables and self-contained HTML pages."""
