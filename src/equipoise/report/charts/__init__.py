"""Charts as inline SVG that keep their type size at any width: x in percent, y in pixels."""
