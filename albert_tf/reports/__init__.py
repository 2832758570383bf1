"""Reports: tables and curves as text, JSON, CSV, pictures and one page."""
