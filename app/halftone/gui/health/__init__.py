"""The Health page: one verdict, the evidence, the cheapest cure."""
