"""Block states, noise, commit rules, draft trees and the one decode loop."""
