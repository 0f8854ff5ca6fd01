# code.awk - C as file:line:code, with comments and the inside of strings and
# characters blanked, so that a search finds code only.

function strip(s,    out, c, two) {
    out = ""
    while (s != "") {
        c = substr(s, 1, 1)
        two = substr(s, 1, 2)
        if (comment) {
            if (two == "*/") { comment = 0; s = substr(s, 3) }
            else s = substr(s, 2)
        } else if (quote != "") {
            if (c == "\\") s = substr(s, 3)
            else {
                if (c == quote) { quote = ""; out = out c }
                s = substr(s, 2)
            }
        } else if (two == "/*") { comment = 1; s = substr(s, 3); out = out " " }
        else if (two == "//") break
        else {
            if (c == "\"" || c == "'") quote = c
            out = out c
            s = substr(s, 2)
        }
    }
    return out
}

FNR == 1 { comment = 0; quote = "" }
{ print FILENAME ":" FNR ":" strip($0) }
