package store_test

func writeScript() error { return nil }
func meetLimit() error   { return nil }
func dropRights() error  { return nil }
