"""Pictures and the parameters inside them: the text that A1111 users know, the numerics receipt, and safe saving."""
