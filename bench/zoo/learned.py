# SPDX-License-Identifier: Apache-2.0
"""Estimators of scikit-learn, written by skl2onnx. `make` gives the fitted estimator and the converter's options, for it or for a class of
parts; rows are free."""
import numpy as np
from sklearn import cluster, compose, decomposition, discriminant_analysis, ensemble, feature_extraction, gaussian_process, impute, linear_model, mixture, naive_bayes
from sklearn import neighbors, neural_network, pipeline, preprocessing, svm, tree

from .entry import entry

FEATURES, CLASSES, FITTED = 6, 3, 240
PLAIN = {"zipmap": False}  # scores as a tensor, not as a map for each row
WORDS = "red green blue big small fast slow loud calm round flat warm cold old new".split()


def table(k, rows=(5, 31)):
    return np.random.default_rng(7 + k).normal(size=(rows[k], FEATURES)).astype(np.float32)


def samples():
    """What is fitted: rows, a class and a number for each."""
    r = np.random.default_rng(3)
    x = r.normal(size=(FITTED, FEATURES)).astype(np.float32)
    score = x @ r.normal(size=(FEATURES, CLASSES)) + 0.5 * np.sin(3 * x[:, :CLASSES])
    return x, score.argmax(1), score[:, 0] + 0.1 * r.normal(size=FITTED)


def estimator(name, make, options=PLAIN, by_class=True):
    """An entry for an estimator on a table of numbers."""
    def fitted():
        x, classes, numbers = samples()
        return (done := make().fit(x, classes if by_class else numbers)), {id(done): options}
    entry(name, "learned", lambda k: {"x": table(k)}, {"x": {0: "rows"}}, ("skl2onnx",))(fitted)


NUMBERS = {"options": {}, "by_class": False}
estimator("linear_regression", linear_model.LinearRegression, **NUMBERS)
estimator("lasso", lambda: linear_model.Lasso(0.01), **NUMBERS)
estimator("logistic_regression", linear_model.LogisticRegression)
estimator("logistic_regression_maps", linear_model.LogisticRegression, options={})
estimator("svc", lambda: svm.SVC(kernel="rbf"))
estimator("linear_svc", svm.LinearSVC, options={})
estimator("svr", lambda: svm.SVR(kernel="poly", degree=2), **NUMBERS)
estimator("one_class_svm", lambda: svm.OneClassSVM(nu=0.2), options={})
estimator("decision_tree", lambda: tree.DecisionTreeClassifier(max_depth=6, random_state=0))
estimator("random_forest", lambda: ensemble.RandomForestClassifier(20, max_depth=6, random_state=0))
estimator("extra_trees", lambda: ensemble.ExtraTreesRegressor(20, max_depth=6, random_state=0), **NUMBERS)
estimator("gradient_boosting", lambda: ensemble.GradientBoostingRegressor(n_estimators=30, random_state=0), **NUMBERS)
estimator("ada_boost", lambda: ensemble.AdaBoostClassifier(n_estimators=10, random_state=0))
estimator("voting", lambda: ensemble.VotingClassifier([("a", linear_model.LogisticRegression()), ("b", naive_bayes.GaussianNB())], voting="soft", flatten_transform=False))
estimator("isolation_forest", lambda: ensemble.IsolationForest(n_estimators=20, random_state=0), options={})
estimator("k_neighbours", lambda: neighbors.KNeighborsClassifier(5))
estimator("k_neighbours_regressor", lambda: neighbors.KNeighborsRegressor(4, weights="distance"), **NUMBERS)
estimator("k_means", lambda: cluster.KMeans(4, n_init=2, random_state=0), options={})
estimator("gaussian_mixture", lambda: mixture.GaussianMixture(3, random_state=0), options={})
estimator("gaussian_process", lambda: gaussian_process.GaussianProcessRegressor(gaussian_process.kernels.RBF(2.0), alpha=0.1, optimizer=None), **NUMBERS)
estimator("gaussian_naive_bayes", naive_bayes.GaussianNB)
estimator("linear_discriminant", discriminant_analysis.LinearDiscriminantAnalysis)
estimator("perceptron_layers", lambda: neural_network.MLPClassifier((16, 8), max_iter=60, random_state=0))
estimator("scaled_pca_logistic", lambda: pipeline.make_pipeline(preprocessing.StandardScaler(), decomposition.PCA(4), linear_model.LogisticRegression()))
estimator("polynomial_ridge", lambda: pipeline.make_pipeline(preprocessing.MinMaxScaler(), preprocessing.PolynomialFeatures(2), linear_model.Ridge()), **NUMBERS)
estimator("binned_logistic", lambda: pipeline.make_pipeline(preprocessing.KBinsDiscretizer(4, encode="onehot-dense", quantile_method="averaged_inverted_cdf"),
                                                            preprocessing.Normalizer(), linear_model.LogisticRegression()))


def columns(k, rows=(5, 31)):
    """Two columns of numbers, some missing, and two of words."""
    r = np.random.default_rng(11 + k)
    numbers = r.normal(size=(2, rows[k], 1)).astype(np.float32)
    numbers[r.random(numbers.shape) < 0.2] = np.nan
    return {"length": numbers[0], "weight": numbers[1], "colour": r.choice(WORDS[:3], (rows[k], 1)), "size": r.choice(WORDS[3:5], (rows[k], 1))}


@entry("columns_forest", "learned", columns, {n: {0: "rows"} for n in ("length", "weight", "colour", "size")}, ("skl2onnx",))
def columns_forest():
    import pandas

    given = {n: v[:, 0] for n, v in columns(0, (FITTED,)).items()}
    numbers = pipeline.make_pipeline(impute.SimpleImputer(), preprocessing.RobustScaler())
    parts = compose.ColumnTransformer([("numbers", numbers, ["length", "weight"]), ("colour", preprocessing.OneHotEncoder(handle_unknown="ignore"), ["colour"]),
                                       ("size", preprocessing.OrdinalEncoder(), ["size"])])
    wanted = np.where(given["colour"] == WORDS[0], "warm", np.where(np.nan_to_num(given["length"]) > 0, "calm", "loud"))
    fitted = pipeline.make_pipeline(parts, ensemble.RandomForestClassifier(10, max_depth=5, random_state=0)).fit(pandas.DataFrame(given), wanted)
    return fitted, {id(fitted): PLAIN}


def sentences(k, rows=(4, 19)):
    r = np.random.default_rng(5 + k)
    return {"text": np.array([[" ".join(r.choice(WORDS, 3 + i % 6))] for i in range(rows[k])])}


@entry("text_tf_idf", "learned", sentences, {"text": {0: "rows"}}, ("skl2onnx",))
def text_tf_idf():
    texts = sentences(0, (FITTED,))["text"][:, 0]
    words = feature_extraction.text.TfidfVectorizer(ngram_range=(1, 2), min_df=3)
    fitted = pipeline.make_pipeline(words, linear_model.LogisticRegression()).fit(texts, ["warm" in t for t in texts])
    return fitted, {id(fitted): PLAIN, id(words): {"locale": "C"}}  # a locale that every system has
