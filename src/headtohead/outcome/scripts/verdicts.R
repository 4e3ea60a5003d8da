# Reproduces the verdicts of a study from the files beside this script. It needs base R, not headtohead.
#
#     Rscript verdicts.R             the study in the folder of this script
#     Rscript verdicts.R FOLDER ...  studies in other folders
#
# runs.csv has the figure of every run. design.csv says when the study is analysed and how much error each analysis may
# spend. verdicts.csv lists the arms, and the verdicts to compare with. Exit code 1: a verdict differs.
#
#     d_s = value of the arm with seed s - value of the control with seed s
#
# If the arm makes no difference, each d_s could as well have the opposite sign. So the test flips signs in all possible
# ways and counts how often t is as large as in the data. An interval holds every difference delta that the same test,
# made with d_s - delta, does not exclude. Names: n pairs, F sign patterns, d the differences (n x arms); NA is no pair.

all_signs <- 14            # up to this number of pairs, every sign pattern is used
tie <- 1e-9                # relative; statistics that differ by less count as equal
kappas <- c(0.5, 1.5, 4.5) # sizes of the bets of the anytime test

# -- the planned analyses ----------------------------------------------------------------------------------------------

# Sign patterns (F x n). A pattern and its opposite give the same t^2, so the first sign is always +1. Beyond 14 pairs
# there are too many: each later sign is the product of some of the first 14 signs, as signs.csv says.
sign_patterns <- function(n, folder) {
  free <- min(n, all_signs)
  signs <- cbind(1, as.matrix(expand.grid(rep(list(c(1, -1)), free - 1))))
  if (n > free) for (text in read(folder, "signs.csv")$product_of[seq_len(n - free)]) {
    signs <- cbind(signs, apply(signs[, numbers(text)], 1, prod))
  }
  unname(signs)
}

# Student's t squared of the differences d, flipped by each pattern.
t_squared <- function(d, signs) {
  there <- !is.na(d)
  n <- sum(there)
  d <- d[there]
  if (n < 2 || all(d == 0)) return(rep(0, nrow(signs)))
  d <- d / max(abs(d))
  share <- as.vector(signs[, there] %*% d)^2 / (n * sum(d^2)) # 0 to 1; a flip changes the sum, not the sum of squares
  share[share < 1e-18] <- 0 # rounding errors
  rest <- 1 - share
  rest[rest < 1e-12] <- 0
  (n - 1) * share / rest
}

# The limit that t^2 must exceed at the last analysis. `paths` has the t^2 of each analysis. Of all patterns, at most the
# share spent[j] may exceed a limit at analysis j or before.
last_limit <- function(paths, spent) {
  left <- rep(TRUE, length(paths[[1]])) # patterns that have not exceeded a limit yet
  for (j in seq_along(paths)) {
    room <- floor(spent[j] * length(left) * (1 + tie)) - sum(!left)
    values <- paths[[j]][left]
    if (room <= 0) limit <- Inf
    else if (room >= length(values)) limit <- 0
    else limit <- sort(values, partial = length(values) - room)[length(values) - room] * (1 + tie)
    left <- left & paths[[j]] <= limit
  }
  limit
}

# The differences that the analyses so far do not exclude for one arm. While it is tested, the other arms are shifted to
# a mean of zero, so that their effects do not hide it. tested[[j]] are the arms of analysis j.
flip_interval <- function(d, arm, analyses, tested, spent, signs) {
  others <- lapply(seq_along(analyses), function(j) { # the largest t^2 of the other arms
    t2 <- rep(0, nrow(signs))
    for (a in setdiff(tested[[j]], arm)) {
      last <- max(analyses[sapply(tested, function(arms) a %in% arms)]) # later pairs do not count
      n <- seq_len(analyses[j])
      shifted <- d[n, a] - mean(d[seq_len(last), a], na.rm = TRUE)
      shifted[which(abs(shifted) < tie * max(abs(d[, a]), na.rm = TRUE))] <- 0 # rounding errors of equal differences
      t2 <- pmax(t2, t_squared(shifted, signs[, n]))
    }
    t2
  })
  excluded <- function(delta) {
    own <- lapply(analyses, function(n) t_squared(d[seq_len(n), arm] - delta, signs[, seq_len(n)]))
    own[[length(own)]][1] > last_limit(Map(pmax, own, others), spent)
  }
  around(d[, arm], excluded)
}

# The differences around the mean of d that a test does not exclude. Zero is one of them exactly if the test does not
# exclude it, so verdict and interval agree.
around <- function(d, excluded) {
  d <- d[!is.na(d)]
  error <- sd(d) / sqrt(length(d))
  if (error == 0) return(c(mean(d), mean(d)))
  zero_is_excluded <- excluded(0)
  end_of <- function(side) { # how far from the mean exclusion begins, in standard errors
    zero <- -side * mean(d) / error # the distance of the difference zero
    most <- if (zero > 0 && zero_is_excluded) zero else Inf
    inside <- if (zero > 0 && !zero_is_excluded) zero else 0
    outside <- min(max(2, 2 * inside), most)
    while (outside < most && !excluded(mean(d) + side * outside * error)) {
      inside <- outside
      outside <- min(2 * outside, most)
      if (outside > 1e6 * max(1, zero)) return(Inf)
    }
    for (turn in 1:40) {
      if (outside - inside < 1e-4 * outside) break
      middle <- (inside + outside) / 2
      if (excluded(mean(d) + side * middle * error)) outside <- middle else inside <- middle
    }
    if (outside == most) inside else outside
  }
  c(mean(d) - end_of(-1) * error, mean(d) + end_of(1) * error)
}

# Replay the analyses: for each arm whether it is decided, at how many pairs, its interval and its inner interval. A
# decided arm leaves, and later pairs do not change its verdict. The inner interval decides equivalence: two one-sided
# tests, so twice the error.
planned_analyses <- function(d, arms, margin, design, folder) {
  found <- rep(list(list(decided = FALSE, n = 0, interval = c(-Inf, Inf), inner = c(-Inf, Inf))), ncol(d))
  tested <- list()
  for (number in seq_along(design$analyses)) {
    n <- design$analyses[number]
    if (n > nrow(d)) break
    first <- d[seq_len(n), , drop = FALSE]
    tested[[number]] <- arms[colSums(!is.na(first[, arms, drop = FALSE])) >= design$fewest_pairs]
    so_far <- seq_len(number)
    if (design$rule == "flips") signs <- sign_patterns(n, folder)
    for (a in tested[[number]]) {
      if (design$rule == "flips") {
        both <- lapply(1:2, function(k) {
          flip_interval(first, a, design$analyses[so_far], tested, k * design$spent[so_far], signs)
        })
      } else { # rule "t": the limits of t^2 come from simulated normal noise, and headtohead wrote them down
        own <- first[!is.na(first[, a]), a]
        at <- design$limits[design$limits$place == a & design$limits$analysis == number, ]
        both <- lapply(at[c("limit", "limit_for_equivalence")], function(limit) {
          mean(own) + c(-1, 1) * sqrt(as.numeric(limit)) * sd(own) / sqrt(length(own))
        })
      }
      decided <- excludes_zero(both[[1]]) || is_within(both[[2]], margin)
      found[[a]] <- list(decided = decided, n = n, interval = both[[1]], inner = both[[2]])
    }
    arms <- Filter(function(a) !found[[a]]$decided, arms)
  }
  found
}

# -- analyses that were not planned ------------------------------------------------------------------------------------

# The differences delta that a gambler never disproved. The gambler bets on the sign of each d - delta before seeing it.
# If delta is right, the capital ever grows to `needed` with a probability of at most 1 / needed.
anytime_interval <- function(d, needed) {
  d <- d[!is.na(d)]
  if (length(d) < 2) return(c(-Inf, Inf))
  excluded <- function(delta) {
    root_mean_square <- sqrt(cumsum((d - delta)^2) / seq_along(d))
    z <- ifelse(root_mean_square > 0, (d - delta) / root_mean_square, 0)
    bets <- sapply(c(-kappas, kappas), function(bet) cumprod(2 / (1 + exp(-2 * bet * z))))
    max(rowMeans(bets)) >= needed
  }
  if (sd(d) == 0 && !excluded(mean(d) + 1)) return(c(-Inf, Inf))
  around(d, excluded)
}

# -- verdicts ----------------------------------------------------------------------------------------------------------

excludes_zero <- function(interval) interval[1] > 0 || interval[2] < 0
is_within <- function(inner, margin) !is.na(margin) && -margin < inner[1] && inner[2] < margin
overlap <- function(a, b) c(max(a[1], b[1]), min(a[2], b[2]))

# The verdict on each arm. Arms in `later` were added after an analysis, so only the anytime test judges them.
judge <- function(d, later, parts, margin, design, folder) {
  planned <- planned_analyses(d, setdiff(seq_len(ncol(d)), later), margin, design, folder)
  reserve <- design$alpha * design$reserve # the error that is kept for the anytime test
  lapply(seq_len(ncol(d)), function(a) {
    p <- planned[[a]]
    own <- if (p$decided) d[seq_len(p$n), a] else d[, a]
    if (!p$decided && reserve > 0) {
      p$interval <- overlap(p$interval, anytime_interval(own, parts[a] / reserve))
      p$inner <- overlap(p$inner, anytime_interval(own, parts[a] / (2 * reserve)))
    }
    pairs <- sum(!is.na(own))
    word <- "unresolved"
    if (pairs >= design$fewest_pairs && excludes_zero(p$interval)) {
      word <- if ((p$interval[2] < 0) == (design$better == "lower")) "better" else "worse"
    }
    if (pairs >= design$fewest_pairs && is_within(p$inner, margin)) word <- "equivalent"
    list(pairs = pairs, difference = mean(own, na.rm = TRUE), interval = p$interval, word = word)
  })
}

# The verdict, or unresolved if it favours a side that lost runs (diverged or collapsed) whose seeds the other side
# finished: the runs that survived do not speak for it.
not_by_survivors <- function(word, control_lost, arm_lost) {
  if (length(setdiff(arm_lost, control_lost)) && word %in% c("better", "equivalent")) return("unresolved")
  if (length(setdiff(control_lost, arm_lost)) && word %in% c("worse", "equivalent")) return("unresolved")
  word
}

# -- files -------------------------------------------------------------------------------------------------------------

read <- function(folder, name) { # as text: an arm may be called NA
  read.csv(file.path(folder, name), colClasses = "character", na.strings = character(0), encoding = "UTF-8")
}
numbers <- function(text) as.numeric(strsplit(text, " ")[[1]])

read_design <- function(folder, table) {
  rows <- read(folder, "design.csv")
  design <- as.list(setNames(rows$value, rows$name))
  for (name in c("alpha", "reserve", "fewest_pairs", "analyses", "spent")) design[[name]] <- numbers(design[[name]])
  if (design$rule == "t") {
    limits <- read(folder, "limits.csv")
    design$limits <- limits[limits$table == table, ]
  }
  design
}

# Print the verdicts of the study in this folder; return how many differ from headtohead's.
check <- function(folder) {
  runs <- read(folder, "runs.csv")
  given <- read(folder, "verdicts.csv")
  different <- 0
  for (table in unique(given$table)) {
    design <- read_design(folder, table)
    rows <- given[given$table == table, ]
    control <- rows$control[1]
    of_arm <- function(arm) runs[runs$table == table & runs$arm == arm, ]
    lost <- function(arm) with(of_arm(arm), seed[status %in% c("diverged", "collapsed")])
    seeds <- of_arm(control)$seed # pairs are in the order of the control's seeds
    values <- function(arm) with(of_arm(arm), as.numeric(value)[match(seeds, seed)])
    d <- vapply(rows$arm, function(arm) values(arm) - values(control), numeric(length(seeds)))
    d <- matrix(d, nrow = length(seeds))
    d[!is.na(d) & abs(d) < 1e-12 * abs(values(control))] <- 0 # rounding errors
    found <- judge(d, which(rows$added_later == "yes"), as.numeric(rows$reserve_parts), as.numeric(rows$margin[1]), design, folder)
    cat(design$study, ": ", design$metric, " against ", control, if (nzchar(table)) " ", table, "\n", sep = "")
    for (a in seq_along(found)) {
      word <- not_by_survivors(found[[a]]$word, lost(control), lost(rows$arm[a]))
      same <- word == rows$verdict[a]
      says <- if (same) "as headtohead" else paste("headtohead:", rows$verdict[a])
      different <- different + !same
      cat(sprintf("  %s %3d %10.5f %10.5f %10.5f  %-10s  %s\n", formatC(rows$arm[a], width = -24), found[[a]]$pairs,
                  found[[a]]$difference, found[[a]]$interval[1], found[[a]]$interval[2], word, says))
    }
  }
  different
}

folders <- commandArgs(trailingOnly = TRUE)
if (!length(folders)) { # that of this script; R writes a blank in its path as ~+~
  script <- sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE))
  folders <- if (length(script)) dirname(gsub("~+~", " ", script, fixed = TRUE)) else "."
}
cat("  arm                    pairs difference        low       high  verdict\n")
different <- sum(sapply(folders, check))
cat(if (different) paste(different, "verdicts differ from headtohead's\n") else "all verdicts are headtohead's\n")
quit(status = if (different) 1 else 0)
