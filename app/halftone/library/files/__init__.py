"""Files on disk: headers, folders, scans, copies and what is fetched."""
