"""What is used beside a model or in the place of a part of it."""
