package admin

// Routes lists the methods and paths in the table.
func Routes() (all [][2]string) {
	for _, r := range routes() {
		all = append(all, [2]string{r.method, r.path})
	}
	return all
}
