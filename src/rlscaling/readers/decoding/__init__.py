"""Bytes to rows without the packages that wrote them."""
