"""Model files and folders: headers, recognition, weight scan, stored check reports. No torch."""
