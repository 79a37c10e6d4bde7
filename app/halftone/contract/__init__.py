"""The words both processes speak: requests, facts, plans, messages, errors and the wire. Pure data, no torch, no Qt."""
