"""The shapes of what the page's routes answer: pydantic models, of which the page's TypeScript types are made."""
