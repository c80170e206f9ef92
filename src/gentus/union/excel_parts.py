"""The fixed parts of an Excel workbook of one sheet (ECMA-376): all XML but the rows."""

from __future__ import annotations

_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_KIND = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_FORMATS = (r"yyyy\-mm\-dd", r"yyyy\-mm\-dd\ hh:mm:ss", "hh:mm:ss")  # 164, 165 and 166 in the styles
DATE, TIMESTAMP, TIME = 1, 2, 3  # the styles of cells

HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
PARTS = {
    "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    f'<Override PartName="/xl/workbook.xml" ContentType="{_KIND}.sheet.main+xml"/>'
    f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{_KIND}.worksheet+xml"/>'
    f'<Override PartName="/xl/styles.xml" ContentType="{_KIND}.styles+xml"/></Types>',
    "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
    f'<Relationship Id="rId1" Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
    "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
    f'<Relationship Id="rId1" Type="{_OFFICE}/worksheet" Target="worksheets/sheet1.xml"/>'
    f'<Relationship Id="rId2" Type="{_OFFICE}/styles" Target="styles.xml"/></Relationships>',
    "xl/styles.xml": "".join(
        (
            f'<styleSheet xmlns="{_MAIN}"><numFmts count="{len(_FORMATS)}">',
            *(f'<numFmt numFmtId="{at}" formatCode="{code}"/>' for at, code in enumerate(_FORMATS, 164)),
            '</numFmts><fonts count="1"><font><sz val="11"/><name val="Calibri"/></font></fonts>',
            '<fills count="2"><fill><patternFill patternType="none"/></fill>',
            '<fill><patternFill patternType="gray125"/></fill></fills>',
            '<borders count="1"><border><left/><right/><top/><bottom/><diagonal/></border></borders>',
            '<cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/></cellStyleXfs>',
            f'<cellXfs count="{1 + len(_FORMATS)}">',
            '<xf numFmtId="0" fontId="0" fillId="0" borderId="0" xfId="0"/>',
            *(
                f'<xf numFmtId="{at}" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1"/>'
                for at in range(164, 164 + len(_FORMATS))
            ),
            '</cellXfs><cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles>',
            "</styleSheet>",
        )
    ),
}
SHEET = "xl/worksheets/sheet1.xml"
SHEET_START = (  # the header stays in sight
    f'<worksheet xmlns="{_MAIN}"><sheetViews><sheetView workbookViewId="0">'
    '<pane ySplit="1" topLeftCell="A2" activePane="bottomLeft" state="frozen"/></sheetView></sheetViews>'
    "<sheetData>"
)
SHEET_END = "</sheetData></worksheet>"


def workbook(sheet: str) -> str:
    """The part that names the sheet, given its name in XML."""
    return (
        f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets>'
        f'<sheet name="{sheet}" sheetId="1" r:id="rId1"/></sheets></workbook>'
    )
