"""The window: shell, pages, widgets, theme. The only place that knows Qt."""
