"""What a fine-tuned model says: its outputs, predictions, answers to questions, and their files."""
