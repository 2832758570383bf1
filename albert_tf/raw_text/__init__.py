"""Files of raw text: which are meant, whether they are text, and where their lines and sentences end."""
