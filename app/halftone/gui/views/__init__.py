"""Lists of painted items over Qt models: for thousands of pictures, models and jobs."""
