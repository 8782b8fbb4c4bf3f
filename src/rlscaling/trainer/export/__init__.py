"""Recipes as options of other engines, and traces as logs of other engines."""
