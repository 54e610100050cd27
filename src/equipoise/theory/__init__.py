"""The paper's theorems as experiments with an answer: synthetic worlds whose truth is known."""
