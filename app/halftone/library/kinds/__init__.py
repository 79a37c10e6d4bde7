"""What tells one kind of model file from another: tables of names and shapes of tensors, and how they are looked up."""
