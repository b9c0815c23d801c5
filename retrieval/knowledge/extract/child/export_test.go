package child

// Limit lets a test be a child that behaves badly.
var Limit = limit

// Raced tells whether the race detector watches. Where memory ends it says so in its
// own words, if at all.
const Raced = shadows > 1
