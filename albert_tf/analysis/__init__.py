"""What a model is made of and what it learned."""
