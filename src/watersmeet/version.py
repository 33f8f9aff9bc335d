"""The version, where every part of the library may ask for it."""

VERSION = "0.1.0"
