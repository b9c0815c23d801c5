package pdf

import (
	"github.com/klippa-app/go-pdfium/enums"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"
)

const (
	// maxObjects is how many objects of a page or group are searched for an image.
	maxObjects = 50
	// scanShare is the share of the page that an image of a scan covers at least.
	scanShare = 0.3
)

// isScan reports whether a page without text has a large image, on its own or in a group.
func (r *pageReader) isScan(loaded references.FPDF_PAGE) (bool, error) {
	at := requests.Page{ByReference: &loaded}
	size, err := r.w.FPDF_GetPageSizeByIndex(&requests.FPDF_GetPageSizeByIndex{Document: r.document, Index: r.index})
	if err != nil {
		return false, ignoreRefusal(err)
	}
	count, err := r.w.FPDFPage_CountObjects(&requests.FPDFPage_CountObjects{Page: at})
	if err != nil {
		return false, ignoreRefusal(err)
	}
	for i := range min(count.Count, maxObjects) {
		object, err := r.w.FPDFPage_GetObject(&requests.FPDFPage_GetObject{Page: at, Index: i})
		if err != nil {
			return false, ignoreRefusal(err)
		}
		image, err := r.isImage(object.PageObject)
		if err != nil {
			return false, err
		}
		bounds, err := r.w.FPDFPageObj_GetBounds(&requests.FPDFPageObj_GetBounds{PageObject: object.PageObject})
		if err != nil {
			return false, ignoreRefusal(err)
		}
		area := float64(bounds.Right-bounds.Left) * float64(bounds.Top-bounds.Bottom)
		if image && area >= scanShare*size.Width*size.Height {
			return true, nil
		}
	}
	return false, nil
}

// isImage reports whether an object of a page is an image, or a group that contains one.
func (r *pageReader) isImage(object references.FPDF_PAGEOBJECT) (bool, error) {
	kind, err := r.w.FPDFPageObj_GetType(&requests.FPDFPageObj_GetType{PageObject: object})
	if err != nil || kind.Type != enums.FPDF_PAGEOBJ_FORM {
		return err == nil && kind.Type == enums.FPDF_PAGEOBJ_IMAGE, ignoreRefusal(err)
	}
	count, err := r.w.FPDFFormObj_CountObjects(&requests.FPDFFormObj_CountObjects{PageObject: object})
	if err != nil {
		return false, ignoreRefusal(err)
	}
	for i := range min(count.Count, maxObjects) {
		part, err := r.w.FPDFFormObj_GetObject(&requests.FPDFFormObj_GetObject{PageObject: object, Index: uint64(i)}) //nolint:gosec // it is no less than 0
		if err != nil {
			return false, ignoreRefusal(err)
		}
		kind, err := r.w.FPDFPageObj_GetType(&requests.FPDFPageObj_GetType{PageObject: part.PageObject})
		if err != nil {
			return false, ignoreRefusal(err)
		}
		if kind.Type == enums.FPDF_PAGEOBJ_IMAGE {
			return true, nil
		}
	}
	return false, nil
}
