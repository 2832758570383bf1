"""Fine-tuning on labelled data: settings, training, evaluation, prediction, and distillation."""
