"""How each server is spoken to: where its replies end, and conversations that send, receive and delete."""
