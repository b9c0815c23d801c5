package folder

import "time"

// LimitOCR sets the time limit of the OCR program of a source.
func LimitOCR(s *Source, limit time.Duration) { s.ocr.limit = limit }

// FillOCR takes all slots of the OCR program of a source.
func FillOCR(s *Source) {
	for range cap(s.ocr.slots) {
		s.ocr.slots <- struct{}{}
	}
}
