"""A request made into what a pipeline takes, and the memory that it will need."""
