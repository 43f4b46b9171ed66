"""Slow or plain second answers that tests hold the product against."""
