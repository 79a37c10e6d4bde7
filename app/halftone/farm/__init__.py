"""The farm: many pictures on several machines. A ledger on the head says what is done; only `cluster` knows Ray."""
