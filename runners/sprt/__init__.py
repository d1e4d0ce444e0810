"""Sequential tests of strength: `qarena sprt`."""
