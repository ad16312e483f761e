package main

// memoryOf returns zeros: there is no /proc.
func memoryOf(int) memory { return memory{} }
