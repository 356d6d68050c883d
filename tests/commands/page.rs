//! A page of docs/commands, taken apart.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

/// The sections of every page, in order.
pub const SECTIONS: [&str; 7] = [
    "Syntax", "Options", "Return", "Errors", "Notes", "Examples", "History",
];

pub struct Page {
    /// The command's, in lower case.
    pub name: String,
    text: String,
}

pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/commands")
}

/// The text of the list of all pages.
pub fn index() -> String {
    fs::read_to_string(folder().join("README.md")).expect("docs/commands/README.md")
}

impl Page {
    /// All pages but the list of them.
    pub fn all() -> Vec<Page> {
        let files = fs::read_dir(folder()).expect("docs/commands");
        let paths = files.map(|file| file.expect("a file of docs/commands").path());
        let mut pages: Vec<_> = paths
            .filter(|path| path.file_name().is_some_and(|name| name != "README.md"))
            .map(|path| Page {
                name: path
                    .file_stem()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned(),
                text: fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}")),
            })
            .collect();
        pages.sort_by(|page, other| page.name.cmp(&other.name));
        pages
    }

    /// The page of a request's command.
    #[track_caller]
    pub fn of(request: &str) -> Page {
        let name = request.split(' ').next().unwrap_or_default().to_lowercase();
        let mut pages = Page::all().into_iter();
        pages
            .find(|page| page.name == name)
            .unwrap_or_else(|| panic!("{name} has no page"))
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// The first line without its mark.
    pub fn title(&self) -> &str {
        self.text
            .lines()
            .next()
            .unwrap_or_default()
            .trim_start_matches("# ")
    }

    /// The paragraph under the title.
    pub fn summary(&self) -> String {
        let lines = self.text.lines().skip(2);
        lines
            .take_while(|line| !line.is_empty())
            .collect::<Vec<_>>()
            .join(" ")
    }

    pub fn sections(&self) -> Vec<&str> {
        self.text
            .lines()
            .filter_map(|line| line.strip_prefix("## "))
            .collect()
    }

    /// What stands under a heading.
    #[track_caller]
    pub fn section(&self, title: &str) -> &str {
        let heading = format!("\n## {title}\n");
        let rest = self.text.split_once(&heading).map(|(_, rest)| rest);
        let rest = rest.unwrap_or_else(|| panic!("{} has no section {title}", self.name));
        rest.split("\n## ").next().unwrap_or_default()
    }

    /// The line of the first code block.
    pub fn syntax(&self) -> &str {
        let mut blocks = self.section("Syntax").split("```\n");
        blocks.nth(1).unwrap_or_default().trim_end()
    }

    /// What the list under the syntax says of something.
    #[track_caller]
    pub fn fact(&self, what: &str) -> &str {
        let start = format!("- **{what}:** ");
        let mut lines = self.section("Syntax").lines();
        lines
            .find_map(|line| line.strip_prefix(&start))
            .unwrap_or_else(|| panic!("{} does not tell its {what}", self.name))
    }

    /// The cells of each row of the tables of a section whose first column has that heading.
    pub fn rows(&self, section: &str, column: &str) -> Vec<Vec<&str>> {
        let mut is_wanted = false;
        let mut rows = Vec::new();
        for line in self.section(section).lines() {
            let Some(cells) = line.strip_prefix('|') else {
                is_wanted = false;
                continue;
            };
            let cells: Vec<_> = cells.trim_end_matches('|').split('|').map(str::trim).collect();
            match is_wanted {
                true if cells[0].starts_with("---") => {}
                true => rows.push(cells),
                false => is_wanted = cells[0] == column,
            }
        }
        rows
    }

    /// The texts in the first column, without their quotes.
    pub fn names(&self, section: &str, column: &str) -> Vec<String> {
        let rows = self.rows(section, column);
        rows.iter().map(|cells| cells[0].replace('`', "")).collect()
    }

    /// The listed errors. One that ends with an ellipsis goes on in words that differ.
    pub fn errors(&self) -> BTreeSet<String> {
        self.names("Errors", "error").into_iter().collect()
    }

    /// The code blocks of the examples.
    pub fn examples(&self) -> Vec<&str> {
        self.section("Examples")
            .split("```\n")
            .skip(1)
            .step_by(2)
            .collect()
    }
}
