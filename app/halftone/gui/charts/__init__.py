"""Charts that paint themselves, and the tables that say the same."""
