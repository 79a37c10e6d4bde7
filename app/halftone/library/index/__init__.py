"""The index of all model files in the user's folders: found, recognised and remembered, and never changed."""
